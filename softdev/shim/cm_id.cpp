// SPDX-License-Identifier: MIT
// Identifiers: creation, destruction, channels, options.
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "softdev/ipc/cancellation.hpp"
#include "softdev/shim/answers.hpp"
#include "softdev/shim/cm_address.hpp"
#include "softdev/shim/cm_operations.hpp"
#include "softdev/shim/guard.hpp"

namespace verbena::softdev {
namespace {

bool is_space(rdma_port_space space) noexcept {
  return space == RDMA_PS_TCP || space == RDMA_PS_UDP || space == RDMA_PS_IB ||
         space == RDMA_PS_IPOIB;
}

cm_id_object* make_id(cm_process& home, rdma_event_channel* channel, const rdma_cm_id& like) {
  auto* const made = new (std::nothrow) cm_id_object{};
  if (made == nullptr) return fail(ENOMEM);
  made->home = &home;
  made->context = like.context;
  made->ps = like.ps;
  made->qp_type = like.qp_type;
  made->channel = channel;
  if (channel != nullptr) return made;
  made->channel = cm_create_channel(home);
  made->synchronous = true;
  if (made->channel != nullptr) return made;
  delete made;
  return nullptr;
}

// Waits until the program has acknowledged the `taken` events.
void wait_for(cm_id_object& id, std::uint32_t taken) {
  std::unique_lock lock(id.lock);
  id.completed.wait(lock, [&] { return id.events_completed >= taken; });
}

template <class T>
bool read_option(const void* value, std::size_t length, T& out) noexcept {
  if (value == nullptr || length != sizeof out) return false;
  std::memcpy(&out, value, sizeof out);
  return true;
}

int set_id_option(cm_id_object& id, int name, const void* value, std::size_t length) {
  std::uint8_t byte = 0;
  int number = 0;
  cm::manager& manager = *id.home->manager;
  const cm::endpoint_view known = manager.look(id.end);
  const cm::phase now = known.state;
  cm::endpoint_options options = known.options;
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      if (!read_option(value, length, byte)) return EINVAL;
      id.type_of_service = byte;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (!read_option(value, length, number)) return EINVAL;
      if (number == 0 && now != cm::phase::idle) return EINVAL;
      options.reuse_address = number != 0;
      break;
    case RDMA_OPTION_ID_AFONLY:
      if (!read_option(value, length, number)) return EINVAL;
      if (now != cm::phase::idle && now != cm::phase::bound) return EINVAL;
      options.one_family = number != 0;
      break;
    case RDMA_OPTION_ID_ACK_TIMEOUT: {
      constexpr std::uint8_t longest = 31;
      if (!read_option(value, length, byte) || byte > longest) return EINVAL;
      if (id.qp_type == IBV_QPT_UD) return EINVAL;
      id.acknowledge_timeout = byte;
      return 0;
    }
    default:
      return ENOSYS;
  }
  return manager.set_options(id.end, options);
}

// Accepts every path, because there is only one.
int set_path(cm_id_object& id, const void* value, std::size_t length) {
  if (value == nullptr || length == 0 || length % sizeof(ibv_path_data) != 0) return EINVAL;
  return id.home->manager->resolve_route(id.end);
}

}  // namespace

int cm_create_id(rdma_event_channel* channel, rdma_cm_id** out, void* context,
                 rdma_port_space space, ibv_qp_type type) {
  if (out == nullptr || !is_space(space)) return cm_result(EINVAL);
  cm_process* const home = cm_here();
  if (home == nullptr) return -1;
  if (channel != nullptr && !cm_usable(*object_of(channel).home)) return -1;
  rdma_cm_id like{};
  like.context = context;
  like.ps = space;
  like.qp_type = type;
  cm_id_object* const made = make_id(*home, channel, like);
  if (made == nullptr) return -1;
  try {
    made->end =
        home->manager->create(object_of(made->channel).events, static_cast<cm::port_space>(space));
  } catch (const std::bad_alloc&) {
    if (made->synchronous) cm_destroy_channel(made->channel);
    delete made;
    return cm_result(ENOMEM);
  }
  made->end->owner = made;
  *out = made;
  return 0;
}

cm_id_object* cm_adopt(cm_id_object& listener, const cm::endpoint_ptr& end) {
  cm_id_object* const made =
      make_id(*listener.home, listener.synchronous ? nullptr : listener.channel, listener);
  if (made == nullptr) return nullptr;
  made->end = end;
  made->end->owner = made;
  made->type_of_service = listener.type_of_service;
  made->acknowledge_timeout = listener.acknowledge_timeout;
  try {
    // The listener may have another channel than when the request arrived.
    listener.home->manager->migrate(end, object_of(made->channel).events);
    cm_refresh(*made);
    cm_fill_path(*made);
  } catch (const std::bad_alloc&) {
    if (made->synchronous) cm_destroy_channel(made->channel);
    delete made;
    return fail(ENOMEM);
  }
  return made;
}

int cm_destroy_id(rdma_cm_id* id) {
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  const std::uint32_t taken = object.home->manager->destroy(object.end);
  cm_acknowledge_own(object);
  wait_for(object, taken);
  if (object.synchronous) cm_destroy_channel(object.channel);
  delete &object;
  return 0;
}

int cm_migrate(rdma_cm_id* id, rdma_event_channel* channel) {
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  if (object.synchronous && channel == nullptr) return cm_result(EINVAL);
  const bool synchronous = channel == nullptr;
  if (synchronous) channel = cm_create_channel(*object.home);
  if (channel == nullptr) return -1;
  const std::uint32_t taken = object.home->manager->migrate(object.end, object_of(channel).events);
  rdma_event_channel* const own = object.synchronous ? object.channel : nullptr;
  if (own != nullptr) cm_acknowledge_own(object);
  object.synchronous = synchronous;
  object.channel = channel;
  wait_for(object, taken);
  if (own != nullptr) cm_destroy_channel(own);
  return 0;
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

#pragma GCC visibility push(default)
extern "C" {

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space ps) try {
  const without_cancellation disabled;
  const bool datagrams = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
  return cm_create_id(channel, id, context, ps, datagrams ? IBV_QPT_UD : IBV_QPT_RC);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_destroy_id(rdma_cm_id* id) try {
  const without_cancellation disabled;
  return cm_destroy_id(id);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) try {
  const without_cancellation disabled;
  return cm_migrate(id, channel);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_set_option(rdma_cm_id* id, int level, int optname, void* optval, size_t optlen) try {
  const without_cancellation disabled;
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  if (level == RDMA_OPTION_ID) return cm_result(set_id_option(object, optname, optval, optlen));
  if (level == RDMA_OPTION_IB && optname == RDMA_OPTION_IB_PATH)
    return cm_result(set_path(object, optval, optlen));
  return cm_result(ENOSYS);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

__be16 rdma_get_src_port(rdma_cm_id* id) { return cm_port_of(id->route.addr.src_addr); }

__be16 rdma_get_dst_port(rdma_cm_id* id) { return cm_port_of(id->route.addr.dst_addr); }

int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) try {
  const without_cancellation disabled;
  if (id == nullptr || ece == nullptr) return cm_result(EINVAL);
  object_of(id).local_ece = *ece;
  return 0;
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) try {
  const without_cancellation disabled;
  if (id == nullptr || ece == nullptr) return cm_result(EINVAL);
  *ece = object_of(id).remote_ece;
  ece->comp_mask = 0;
  return 0;
}
VERBENA_END_OF_C_FUNCTION(minus_one)

}  // extern "C"
#pragma GCC visibility pop
