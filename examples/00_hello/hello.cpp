// SPDX-License-Identifier: MIT
// Two programs greet each other: `hello` in one terminal, `hello HOST:7471` in another.
#include <verbena/verbena.hpp>

#include <iostream>

// [program]
int main(int argc, char** argv) {
  auto channel = argc > 1 ? verbena::message_channel::connect(argv[1])  // "host:7471"
                          : verbena::message_channel::listen_once(":7471");
  if (!channel) return verbena::print_error(channel.error());
  channel->send(verbena::bytes_of("hello")).value();
  auto message = channel->receive().value();
  std::cout << message.text() << '\n';
  return channel->drain() ? 0 : 1;
}
// [/program]
