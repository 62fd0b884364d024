// SPDX-License-Identifier: MIT
// Arguments of a spawned function are copied, so a reference to the caller's object needs
// std::ref().
// expect: no matching (member )?function for call
#include <functional>
#include <string>

#include "verbena/async/scope.hpp"

verbena::async::task<> extend(std::string& name);

void use(verbena::async::scope& clients, std::string& name) {
#ifdef VERBENA_BAD
  clients.spawn(extend, name);
#else
  clients.spawn(extend, std::ref(name));
#endif
}
