"""The smallest whole."""

from tests.support.product import Product


def test_a_worker_and_two_schedulers_come_up_and_go_in_good_order(product: Product) -> None:
    with product.fleet() as fleet:
        worker = fleet.worker("default", 2)
        leader, standby = fleet.scheduler(), fleet.scheduler()
        for member in (standby, leader, worker):
            assert member.stop() == 0, member.tail()
