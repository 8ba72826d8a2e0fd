"""ULPPACK: several narrow multiply-accumulates in one wide multiplication, and its rivals."""
