// SPDX-License-Identifier: MIT
// A reference parameter of a spawned function would refer to a converted temporary.
// expect: would refer to a temporary that is destroyed before the task ends
#include <string>

#include "verbena/async/scope.hpp"

verbena::async::task<> greet(const std::string& name);

void use(verbena::async::scope& clients) {
#ifdef VERBENA_BAD
  clients.spawn(greet, "client");
#else
  clients.spawn(greet, std::string("client"));
#endif
}
