    int greatest = 0;
    for (int i = 0; i < ${id}_results; ++i) {
        scores[i] = score(i);
        if (scores[i] > scores[greatest])
            greatest = i;
    }
    return greatest;
}

int ${id}_run(const void *input, int32_t *scores) { return ${id}_observed(input, scores, 0); }
