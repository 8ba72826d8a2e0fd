"""Everything that runs something: golden models, ISS, benches, co-simulation and the command line."""
