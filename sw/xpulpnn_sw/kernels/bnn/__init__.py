"""The binarised vehicle classifier: a network of +1 and -1, 32 channels to a word."""
