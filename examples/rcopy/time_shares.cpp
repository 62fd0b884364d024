// SPDX-License-Identifier: MIT
#include "examples/rcopy/time_shares.hpp"

#include <algorithm>
#include <ctime>

namespace rcopy {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

}  // namespace

stage_clock::stage_clock() : begin_(std::chrono::steady_clock::now()), last_(processor_time()) {}

void stage_clock::end(stage which) {
  const nanoseconds now = processor_time();
  used_[static_cast<std::size_t>(which)] += now - last_;
  last_ = now;
}

time_shares stage_clock::shares() const {
  const auto elapsed = std::chrono::steady_clock::now() - begin_;
  const auto [file, checksum, transport] = used_;
  const auto waiting = std::max(nanoseconds(0), elapsed - (file + checksum + transport));
  return {.file = duration_cast<microseconds>(file),
          .checksum = duration_cast<microseconds>(checksum),
          .transport = duration_cast<microseconds>(transport),
          .waiting = duration_cast<microseconds>(waiting)};
}

}  // namespace rcopy
