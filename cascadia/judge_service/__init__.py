"""The embedding judge behind HTTP: `cascadia judge serve`."""
