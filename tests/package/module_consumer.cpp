// SPDX-License-Identifier: MIT
// A program that imports the module instead of including headers.
#include <chrono>
#include <cstdio>

import verbena;

int main() {
  auto context = verbena::open_device("soft0");
  if (!context) return verbena::print_error(context.error());
  auto pd = context->allocate_pd().value();
  auto region =
      pd.allocate(4096, verbena::access::local_write | verbena::access::remote_read).value();
  std::printf("module: soft0 registered %zu bytes\n", region.bytes().size());
  return verbena::deadline::never().is_never() ? 0 : 1;
}
