// SPDX-License-Identifier: MIT
// The functions of a receiver are noexcept: the loop that calls them has other completions.
// expect: of a receiver must be noexcept
#include "verbena/async/channel.hpp"
#include "verbena/async/execution.hpp"

struct receiver {
  using receiver_concept = verbena::async::execution::receiver_t;
#ifdef VERBENA_BAD
  void set_value(const verbena::operation_result& done) && { done.value(); }
#else
  void set_value(const verbena::operation_result& /*done*/) && noexcept {}
#endif
  void set_stopped() && noexcept {}
};

void use(verbena::async::channel& channel, const verbena::source& data) {
  auto state = verbena::async::execution::connect(channel.send(data), receiver());
  verbena::async::execution::start(state);
}
