"""The public interface, found in the code: for its reference, its snapshot and the tests of it."""
