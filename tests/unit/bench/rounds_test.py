# SPDX-License-Identifier: MIT
import unittest

from bench.harness.rounds import Round, interleave, keep, outcome


def rounds_with(peers, ours=10.0):
    return [Round(peer, ours) for peer in peers]


class Keep(unittest.TestCase):
    def test_keeps_rounds_within_15_percent_of_the_peers_median(self):
        result = keep(rounds_with([100, 100, 100, 114.9, 85.1, 100, 100, 100, 100]))
        self.assertEqual(len(result.kept), 9)

    def test_drops_rounds_in_which_the_peer_deviates(self):
        result = keep(rounds_with([100] * 8 + [116, 84, 500, 1]))
        self.assertEqual((result.total, len(result.kept)), (12, 8))
        self.assertTrue(all(one.peer == 100 for one in result.kept))

    def test_own_deviation_drops_no_round(self):
        rounds = [Round(100, ours) for ours in (10, 10, 10, 10, 1000, 10, 10)]
        self.assertEqual(len(keep(rounds).kept), 7)

    def test_seven_rounds_are_a_result(self):
        result = keep(rounds_with([100] * 7))
        self.assertTrue(result.has_result)
        self.assertAlmostEqual(result.ratio, 0.1)

    def test_six_rounds_are_no_result(self):
        result = keep(rounds_with([100] * 6 + [200] * 3))
        self.assertFalse(result.has_result)
        self.assertIsNone(result.ratio)

    def test_no_round_is_no_result(self):
        self.assertFalse(keep([]).has_result)

    def test_peer_with_zero_times_is_no_result(self):
        self.assertFalse(keep(rounds_with([0.0] * 9)).has_result)

    def test_ratio_is_the_median_of_the_rounds_own_ratios(self):
        # Ours follows the machine: twice the peer in each round, whatever the peer was.
        rounds = [Round(peer, 2 * peer) for peer in (95, 97, 99, 100, 101, 103, 105)]
        self.assertAlmostEqual(keep(rounds).ratio, 2.0)


class Interleave(unittest.TestCase):
    @staticmethod
    def programs(peer_samples, log):
        samples = iter(peer_samples)

        def peer():
            log.append("peer")
            return next(samples)

        def ours():
            log.append("ours")
            return 1.0

        return {"peer": peer, "ours": ours}

    def test_programs_run_in_turn_and_alternate_the_first(self):
        log = []
        interleave(self.programs([5.0] * 9, log), "ours", rounds=9)
        self.assertEqual(log[:8], ["peer", "ours", "ours", "peer"] * 2)
        self.assertEqual(len(log), 18)

    def test_adds_rounds_until_seven_are_kept(self):
        log = []
        samples = interleave(self.programs([5.0, 50.0, 500.0] + [5.0] * 18, log), "ours", rounds=9)
        self.assertTrue(outcome(samples, "peer", "ours").has_result)
        self.assertEqual(len(samples["peer"]), 9)
        log.clear()
        unsteady = [5.0, 50.0, 500.0, 5.0, 40.0] + [5.0] * 16
        samples = interleave(self.programs(unsteady, log), "ours", rounds=9)
        self.assertEqual(len(samples["peer"]), 10)

    def test_stops_at_the_maximum_of_rounds(self):
        samples = interleave(self.programs([2.0**i for i in range(99)], []), "ours", 9, most=12)
        result = outcome(samples, "peer", "ours")
        self.assertEqual(result.total, 12)
        self.assertFalse(result.has_result)

    def test_each_peer_has_separate_rounds(self):
        steady = {"calm": lambda: 3.0, "ours": lambda: 6.0}
        noise = iter([2.0**i for i in range(99)])
        samples = interleave(steady | {"noisy": lambda: next(noise)}, "ours", 9, most=11)
        self.assertAlmostEqual(outcome(samples, "calm", "ours").ratio, 2.0)
        self.assertFalse(outcome(samples, "noisy", "ours").has_result)


if __name__ == "__main__":
    unittest.main()
