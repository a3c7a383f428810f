"""The table of bad inputs; `tests/integration/test_bad_inputs.py` says how a row is read."""
