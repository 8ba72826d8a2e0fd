"""Networks out of the files of training frameworks, made into integer layers."""
