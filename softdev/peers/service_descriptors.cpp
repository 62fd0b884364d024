// SPDX-License-Identifier: MIT
#include "softdev/peers/service_descriptors.hpp"

namespace verbena::softdev {

void service_descriptors::watch_socket(peer& of, reactor::wanted what) const noexcept {
  const int failed =
      reactor_.rewatch(of.parts().messages.fd(), {source::peer_socket, of.slot()}, what);
  of.parts().service.watched = failed == 0 ? std::optional(what) : std::nullopt;
}

void service_descriptors::watch_process(peer& of) const noexcept {
  const int fd = of.parts().process.watch().fd();
  if (fd >= 0) static_cast<void>(reactor_.watch(fd, {source::peer_process, of.slot()}));
}

void service_descriptors::stop(peer& which) const noexcept {
  reactor_.unwatch(which.parts().messages.fd());
  which.parts().service.watched.reset();
  reactor_.unwatch(which.parts().process.watch().fd());
}

}  // namespace verbena::softdev
