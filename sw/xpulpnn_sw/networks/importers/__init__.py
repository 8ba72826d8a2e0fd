"""Importers of trained networks from the files of training frameworks; layers are converted to integers."""
