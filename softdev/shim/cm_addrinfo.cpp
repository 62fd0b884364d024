// SPDX-License-Identifier: MIT
// rdma_getaddrinfo: resolves names by getaddrinfo(3) and returns the structs of rdma_cma.h.
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "softdev/ipc/cancellation.hpp"
#include "softdev/shim/cm_address.hpp"
#include "softdev/shim/cm_operations.hpp"
#include "softdev/shim/guard.hpp"

namespace verbena::softdev {
namespace {

struct freed {
  void operator()(rdma_addrinfo* list) const noexcept {
    while (list != nullptr) {
      rdma_addrinfo* const next = list->ai_next;
      std::free(list->ai_src_addr);
      std::free(list->ai_dst_addr);
      std::free(list->ai_src_canonname);
      std::free(list->ai_dst_canonname);
      std::free(list->ai_route);
      std::free(list->ai_connect);
      std::free(list);
      list = next;
    }
  }
};
using address_list = std::unique_ptr<rdma_addrinfo, freed>;

// Returns false if memory is exhausted.
bool copy_address(const sockaddr* from, socklen_t length, sockaddr*& to, socklen_t& to_length) {
  if (from == nullptr || length == 0) return true;
  to = static_cast<sockaddr*>(std::calloc(1, length));
  if (to == nullptr) return false;
  std::memcpy(to, from, length);
  to_length = length;
  return true;
}

// Derives the port space and the queue pair type from each other if one is missing: UD from UDP or
// IPoIB, RC from TCP.
void complete(rdma_addrinfo& about) noexcept {
  if (about.ai_port_space == 0)
    about.ai_port_space = about.ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
  if (about.ai_qp_type != 0) return;
  const bool datagrams = about.ai_port_space == RDMA_PS_UDP || about.ai_port_space == RDMA_PS_IPOIB;
  about.ai_qp_type = datagrams ? IBV_QPT_UD : IBV_QPT_RC;
}

addrinfo hints_for(const rdma_addrinfo& about) noexcept {
  const bool datagrams = about.ai_qp_type == IBV_QPT_UD;
  addrinfo out{};
  if ((about.ai_flags & RAI_PASSIVE) != 0) out.ai_flags |= AI_PASSIVE;
  if ((about.ai_flags & RAI_NUMERICHOST) != 0) out.ai_flags |= AI_NUMERICHOST;
  out.ai_family = about.ai_family;
  out.ai_socktype = datagrams ? SOCK_DGRAM : SOCK_STREAM;
  return out;
}

// Returns 0, an error of getaddrinfo(3), or -1 with errno.
int look_up(const char* node, const char* service, rdma_addrinfo& out) {
  const addrinfo hints = hints_for(out);
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(node, service, &hints, &found)) return failed;
  const bool passive = (out.ai_flags & RAI_PASSIVE) != 0;
  out.ai_family = found->ai_family;
  const bool copied =
      passive ? copy_address(found->ai_addr, found->ai_addrlen, out.ai_src_addr, out.ai_src_len)
              : copy_address(found->ai_addr, found->ai_addrlen, out.ai_dst_addr, out.ai_dst_len);
  if (copied && found->ai_canonname != nullptr)
    (passive ? out.ai_src_canonname : out.ai_dst_canonname) = ::strdup(found->ai_canonname);
  ::freeaddrinfo(found);
  return copied ? 0 : cm_result(ENOMEM);
}

int make(const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo& out) {
  if (hints != nullptr) {
    out.ai_flags = hints->ai_flags;
    out.ai_family = hints->ai_family;
    out.ai_qp_type = hints->ai_qp_type;
    out.ai_port_space = hints->ai_port_space;
  }
  complete(out);
  if (node != nullptr || service != nullptr) {
    if (const int failed = look_up(node, service, out)) return failed;
  }
  if (hints == nullptr) return 0;
  const bool source = out.ai_src_len != 0 || copy_address(hints->ai_src_addr, hints->ai_src_len,
                                                          out.ai_src_addr, out.ai_src_len);
  const bool destination =
      out.ai_dst_len != 0 ||
      copy_address(hints->ai_dst_addr, hints->ai_dst_len, out.ai_dst_addr, out.ai_dst_len);
  return source && destination ? 0 : cm_result(ENOMEM);
}

}  // namespace
}  // namespace verbena::softdev

using namespace verbena::softdev;

#pragma GCC visibility push(default)
extern "C" {

int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                     rdma_addrinfo** res) try {
  const without_cancellation disabled;
  if (res == nullptr || (node == nullptr && service == nullptr && hints == nullptr))
    return cm_result(EINVAL);
  if (cm_here() == nullptr) return -1;
  address_list made(static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo))));
  if (made == nullptr) return cm_result(ENOMEM);
  if (const int failed = make(node, service, hints, *made)) return failed;
  *res = made.release();
  return 0;
}
VERBENA_END_OF_C_FUNCTION(minus_one)

void rdma_freeaddrinfo(rdma_addrinfo* res) try {
  const without_cancellation disabled;
  freed{}(res);
}
VERBENA_END_OF_SILENT_C_FUNCTION

}  // extern "C"
#pragma GCC visibility pop
