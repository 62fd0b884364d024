// SPDX-License-Identifier: MIT
#include "tools/verbena/run/choice.hpp"

#include "tools/verbena/run/loader.hpp"

namespace verbena::tool {

choice choose_way(const program& found, way asked) {
  if (asked == way::preload) return {.way = asked, .reason = "--preload was given"};
  if (asked == way::dropin) return {.way = asked, .reason = "--dropin was given"};
  if (!found.interpreters.empty())
    return {.way = way::dropin,
            .reason = "it is a script for " + found.executable +
                      ", whose programs may load libibverbs in any way"};
  switch (ask_loader(found.loader, found.executable).on_libibverbs) {
    case dependence::linked:
      return {.way = way::preload, .reason = "it is linked to libibverbs.so.1"};
    case dependence::missing:
      return {.way = way::dropin, .reason = "it needs libibverbs.so.1, which is not installed"};
    case dependence::not_linked:
      return {.way = way::dropin,
              .reason = "it is not linked to libibverbs.so.1, but may load it later"};
    case dependence::not_known:
      break;
  }
  return {.way = way::dropin, .reason = "its loader does not list its libraries"};
}

}  // namespace verbena::tool
