"""IP packages: the Verilog of a component with everything a project needs around it."""
