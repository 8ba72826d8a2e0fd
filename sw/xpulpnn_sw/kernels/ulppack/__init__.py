"""ULPPACK: several narrow multiply-accumulates in one wide multiplication, and methods to compare it with."""
