"""Report of a plan, as report.html and as a terminal's summary: sentences, tables and charts."""
