// SPDX-License-Identifier: MIT
// Static rates: their encoding, their multiple of 2.5 Gbit/s, and the signalling rate of all lanes.
#include <infiniband/verbs.h>

#include <array>

namespace {

struct rate {
  ibv_rate code;
  int multiple;  ///< -1: the interface has no multiple for it
  int mbps;
};

constexpr std::array rates{
    rate{IBV_RATE_2_5_GBPS, 1, 2500},       rate{IBV_RATE_5_GBPS, 2, 5000},
    rate{IBV_RATE_10_GBPS, 4, 10000},       rate{IBV_RATE_20_GBPS, 8, 20000},
    rate{IBV_RATE_30_GBPS, 12, 30000},      rate{IBV_RATE_40_GBPS, 16, 40000},
    rate{IBV_RATE_60_GBPS, 24, 60000},      rate{IBV_RATE_80_GBPS, 32, 80000},
    rate{IBV_RATE_120_GBPS, 48, 120000},    rate{IBV_RATE_14_GBPS, -1, 14062},
    rate{IBV_RATE_56_GBPS, -1, 56250},      rate{IBV_RATE_112_GBPS, -1, 112500},
    rate{IBV_RATE_168_GBPS, -1, 168750},    rate{IBV_RATE_25_GBPS, -1, 25781},
    rate{IBV_RATE_100_GBPS, -1, 103125},    rate{IBV_RATE_200_GBPS, -1, 206250},
    rate{IBV_RATE_300_GBPS, -1, 309375},    rate{IBV_RATE_28_GBPS, 11, 28125},
    rate{IBV_RATE_50_GBPS, 20, 53125},      rate{IBV_RATE_400_GBPS, 160, 425000},
    rate{IBV_RATE_600_GBPS, 240, 637500},   rate{IBV_RATE_800_GBPS, 320, 850000},
    rate{IBV_RATE_1200_GBPS, 480, 1275000},
};

int find(ibv_rate code, int rate::* what) noexcept {
  for (const auto& candidate : rates)
    if (candidate.code == code) return candidate.*what;
  return -1;
}

ibv_rate find(int value, int rate::* what) noexcept {
  for (const auto& candidate : rates)
    if (value > 0 && candidate.*what == value) return candidate.code;
  return IBV_RATE_MAX;
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) int ibv_rate_to_mult(ibv_rate code) {
  return find(code, &rate::multiple);
}
__attribute__((visibility("default"))) ibv_rate mult_to_ibv_rate(int mult) {
  return find(mult, &rate::multiple);
}
__attribute__((visibility("default"))) int ibv_rate_to_mbps(ibv_rate code) {
  return find(code, &rate::mbps);
}
__attribute__((visibility("default"))) ibv_rate mbps_to_ibv_rate(int mbps) {
  return find(mbps, &rate::mbps);
}
}
