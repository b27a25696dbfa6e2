from perf import lines
def test_x(): pass
