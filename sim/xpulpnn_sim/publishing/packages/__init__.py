"""IP packages: the Verilog of a component with testbench, constraints and documents."""
