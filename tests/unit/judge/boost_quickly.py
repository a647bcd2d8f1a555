"""A course short enough for tests."""

from cascadia_judge.head.learners import Growth
from cascadia_judge.head.training import Course

QUICK = Course(folds=3, growth=Growth(trees=30))
