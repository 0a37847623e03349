"""The paper's problems as plain functions."""
