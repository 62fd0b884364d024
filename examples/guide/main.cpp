// SPDX-License-Identifier: MIT
// Runs the snippets of docs/guide, one page after another.
#include <exception>
#include <iostream>
#include <utility>

#include "examples/guide/snippets.hpp"

int main() {
  const std::pair<const char*, void (*)()> pages[] = {
      {"open a device", guide::open_a_device},
      {"memory", guide::memory},
      {"buffers", guide::buffers},
      {"state machine by hand", guide::state_machine_by_hand},
      {"errors", guide::errors},
      {"reliable connection", guide::reliable_connection},
      {"options", guide::options},
      {"reliable connection over TCP", guide::reliable_connection_over_tcp},
      {"negotiated connection", guide::negotiated_connection},
      {"completions by polling", guide::completions_by_polling},
      {"completions by events", guide::completions_by_events},
      {"threads", guide::threads},
      {"unreliable connection", guide::unreliable_connection},
      {"datagrams", guide::datagrams},
      {"shared receive queue", guide::shared_receive_queue},
      {"asynchronous events", guide::asynchronous_events},
      {"one thread for many channels", guide::one_thread_for_many_channels},
      {"operations with tags", guide::operations_with_tags},
      {"coroutines in a loop of the program", guide::coroutines_in_a_loop_of_the_program},
      {"connections in steps", guide::connections_in_steps},
      {"groups in steps", guide::groups_in_steps},
  };
  for (const auto& [name, run] : pages) {
    std::cout << "== " << name << '\n' << std::flush;
    try {
      run();
    } catch (const std::exception& failure) {
      std::cout << "failed: " << failure.what() << '\n' << std::flush;
      return 1;
    }
  }
}
