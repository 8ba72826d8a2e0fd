// A small system of equations: loops over columns and rows whose turns are few and grow with those around them.
#include <stdio.h>
#include <xpulpnn_rt.h>

#define ROWS 12
static int matrix[ROWS][ROWS], right[ROWS], left[ROWS];

static __attribute__((noinline)) void solve(int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            int sum = matrix[i][j], end = i < j ? i : j;
            for (int k = 0; k < end; k++) sum -= matrix[i][k] * matrix[k][j];
            matrix[i][j] = i > j ? sum / matrix[j][j] : sum;
        }
    for (int i = 0; i < n; i++) {
        left[i] = right[i];
        for (int k = 0; k < i; k++) left[i] -= matrix[i][k] * left[k];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++) left[i] -= matrix[i][k] * left[k];
        left[i] /= matrix[i][i];
    }
}

int main(void) {
    // a product of triangles of ones and of powers of -1, whose solution is 1, 2, ..
    const int n = 6;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            int end = i < j ? i : j;
            matrix[i][j] = 0;
            for (int k = 0; k <= end; k++) matrix[i][j] += k & 1 ? -1 : 1;
            right[i] += matrix[i][j] * (j + 1);
        }
    uint32_t begin = xp_cycles();
    solve(n);
    uint32_t cycles = xp_cycles() - begin;
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += left[i] != i + 1;
    printf("%d cycles, %d wrong\n", (int)cycles, wrong);
    return wrong;
}
