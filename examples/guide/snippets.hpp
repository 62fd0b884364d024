// SPDX-License-Identifier: MIT
// The functions that docs/guide quotes. Each can be called separately and throws if it fails.
#pragma once

#include <stdexcept>

namespace guide {

void open_a_device();
void memory();
void buffers();
void state_machine_by_hand();
void errors();
void reliable_connection();
void options();
void reliable_connection_over_tcp();
void negotiated_connection();
void completions_by_polling();
void completions_by_events();
void threads();
void unreliable_connection();
void datagrams();
void shared_receive_queue();
void asynchronous_events();
void one_thread_for_many_channels();
void operations_with_tags();
void coroutines_in_a_loop_of_the_program();
void connections_in_steps();
void groups_in_steps();

/// Throws if `holds` is false.
inline void require(bool holds) {
  if (!holds) throw std::runtime_error("a condition that the page states does not hold");
}

}  // namespace guide
