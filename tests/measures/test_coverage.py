from tests.measures.simulated import Population
def test_x(): pass
