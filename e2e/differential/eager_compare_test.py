import unittest

import eager_compare
from eager_compare import DIFFERS, LATE, MISTAKEN


def results(*outcomes):
    """Results of statements that show a number, or fail with a class and a message."""
    return [(i, [], (*o, "", "")) if isinstance(o, tuple) else (i, [o], None) for i, o in enumerate(outcomes)]


LOST, GONE, BUG = ("NotFoundError", "a is lost"), ("NotFoundError", "b is gone"), ("InternalError", "a bug")


class First(unittest.TestCase):
    def test_first(self):
        for reference, ours, want in [
                ([1, LOST, 2], [1, LOST, 2], (None, None)),
                ([1, 2], [1, 3], (1, DIFFERS)),
                ([1, LOST], [1, GONE], (1, DIFFERS)),
                ([1, LOST], [1, 2], (1, DIFFERS)),  # Troupe never reports it
                ([1, 2], [1, LOST], (1, DIFFERS)),  # the reference never does
                ([1, BUG], [1, 2], (1, MISTAKEN)),
                ([1, 2], [1, BUG], (1, DIFFERS)),
                ([LOST, 1, LOST], [LOST, 1, 2], (2, LATE)),  # once more
                ([LOST, 1, 2], [LOST, 1, LOST], (2, DIFFERS)),  # Troupe reports it once more
                ([LOST, 1, GONE], [LOST, 1, 2], (2, DIFFERS)),  # another one
                ([1, 2, LOST], [1, LOST, 3], (1, LATE)),
                ([1, LOST, 2], [1, 2, LOST], (1, DIFFERS)),  # Troupe is late
        ]:
            with self.subTest(reference=reference, ours=ours):
                self.assertEqual(eager_compare.first(results(*reference), results(*ours)), want)


if __name__ == "__main__":
    unittest.main()
