"""The benches: a file each, with one function from `Bed` to `Report`."""
