"""Tests of shipsilently_fastapi: one module per source module, and whole apps."""
