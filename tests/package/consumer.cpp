// SPDX-License-Identifier: MIT
// What every consumer project builds: finds the software device through the installed (or included)
// library and registers memory with it. Prints one line that the tests look for.
#include <verbena/efa/device_attributes.hpp>
#include <verbena/efa/srd.hpp>
#include <verbena/verbena.hpp>

#include <cstdio>

int main() {
  auto context = verbena::open_device("soft0").value();
  auto pd = context.allocate_pd().value();
  auto region = pd.allocate(4096, verbena::access::local_write).value();
  auto system = verbena::system_provider();
  std::printf("consumer: soft0 registered %zu bytes; system verbs: %s\n", region.bytes().size(),
              system ? verbena::to_string((*system)->origin) : "none");
  // By default soft0 is no EFA; asking it needs no libefa.
  return verbena::efa::is_efa(context) ? 1 : 0;
}
