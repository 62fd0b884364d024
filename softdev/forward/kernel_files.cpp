// SPDX-License-Identifier: MIT
// The formats are those of the kernel: drivers/infiniband/core/sysfs.c, device.c and uverbs_main.c.
// soft0 has no parent device, like the kernel's software adapters (rxe, siw). It therefore has no
// `device`. It also lacks the files that individual drivers add (hca_type, board_id).
#include "softdev/forward/kernel_files.hpp"

#include <endian.h>
#include <net/if.h>
#include <rdma/ib_user_verbs.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "softdev/forward/engine.hpp"
#include "softdev/forward/slots.hpp"

namespace verbena::forward {
namespace {

using state = file_text::state;
using writer = state (*)(const device_view& from, unsigned index, file_text& text);

constexpr std::uint8_t only_port = 1;
// The node is a link to the null device, because an unprivileged process cannot make a device node.
constexpr const char* null_device = "/dev/null";

// Returns the name of `value` in `names`, or `other`.
template <std::size_t Count>
const char* name_of(const char* const (&names)[Count], unsigned value, const char* other) noexcept {
  return value < Count && names[value] != nullptr ? names[value] : other;
}

state write_guid(file_text& text, std::uint64_t guid) noexcept {
  const std::uint64_t value = be64toh(guid);
  const auto part = [&](unsigned shift) { return static_cast<unsigned>(value >> shift) & 0xffffU; };
  return text.print("%04x:%04x:%04x:%04x\n", part(48), part(32), part(16), part(0));
}

state write_node_type(const device_view& /*from*/, unsigned /*index*/, file_text& text) {
  static constexpr const char* names[] = {nullptr, "CA",    "switch",    "router",
                                          "RNIC",  "usNIC", "usNIC UDP", "unspecified"};
  const auto type = static_cast<unsigned>(soft_engine().device->node_type);
  return text.print("%u: %s\n", type, name_of(names, type, "<unknown>"));
}

state write_state(const device_view& from, unsigned /*index*/, file_text& text) {
  static constexpr const char* names[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
  return text.print("%d: %s\n", from.port.state, name_of(names, from.port.state, "UNKNOWN"));
}

state write_phys_state(const device_view& from, unsigned /*index*/, file_text& text) {
  static constexpr const char* names[] = {nullptr,
                                          "Sleep",
                                          "Polling",
                                          "Disabled",
                                          "PortConfigurationTraining",
                                          "LinkUp",
                                          "LinkErrorRecovery",
                                          "Phy Test"};
  return text.print("%u: %s\n", from.port.phys_state,
                    name_of(names, from.port.phys_state, "<unknown>"));
}

state write_link_layer(const device_view& from, unsigned /*index*/, file_text& text) {
  static constexpr const char* names[] = {"Unknown", "InfiniBand", "Ethernet"};
  return text.print("%s\n", name_of(names, from.port.link_layer, "Unknown"));
}

// A speed of one lane: `rate` in hundreds of Mb/s, `name` as for InfiniBand.
struct speed {
  unsigned code;
  unsigned rate;
  const char* name;
};

state write_rate(const device_view& from, unsigned /*index*/, file_text& text) {
  static constexpr speed speeds[] = {{1, 25, ""},        {2, 50, " DDR"},    {4, 100, " QDR"},
                                     {8, 100, " FDR10"}, {16, 140, " FDR"},  {32, 250, " EDR"},
                                     {64, 500, " HDR"},  {128, 1000, " NDR"}};
  static constexpr unsigned lanes[] = {1, 4, 8, 12, 2};  // by the bit of active_width
  const speed* found = &speeds[0];
  for (const speed& each : speeds)
    if (each.code == from.port.active_speed) found = &each;
  unsigned width = 1;
  for (unsigned bit = 0; bit < std::size(lanes); ++bit)
    if (from.port.active_width == 1U << bit) width = lanes[bit];
  const unsigned rate = found->rate * width;
  return text.print("%u%s Gb/sec (%uX%s)\n", rate / 10, rate % 10 != 0 ? ".5" : "", width,
                    found->name);
}

// On RoCE, an empty entry reads as zeros.
state write_gid(const device_view& from, unsigned index, file_text& text) {
  if (index >= static_cast<unsigned>(from.port.gid_tbl_len)) return state::missing;
  ibv_gid_entry entry = {};
  static_cast<void>(from.gid(index, entry));
  text.length = 0;
  for (std::size_t i = 0; i < sizeof entry.gid.raw; i += 2)
    text.length += static_cast<std::size_t>(
        std::snprintf(text.bytes.data() + text.length, text.bytes.size() - text.length,
                      "%02x%02x%c", entry.gid.raw[i], entry.gid.raw[i + 1], i < 14 ? ':' : '\n'));
  return state::readable;
}

state write_gid_type(const device_view& from, unsigned index, file_text& text) {
  if (index >= static_cast<unsigned>(from.port.gid_tbl_len)) return state::missing;
  ibv_gid_entry entry = {};
  if (!from.gid(index, entry)) return state::refused;
  return text.print("%s\n", entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
}

state write_gid_interface(const device_view& from, unsigned index, file_text& text) {
  if (index >= static_cast<unsigned>(from.port.gid_tbl_len)) return state::missing;
  ibv_gid_entry entry = {};
  std::array<char, IF_NAMESIZE> name;
  if (!from.gid(index, entry) || entry.ndev_ifindex == 0 ||
      ::if_indextoname(entry.ndev_ifindex, name.data()) == nullptr)
    return state::refused;
  return text.print("%s\n", name.data());
}

state write_partition(const device_view& from, unsigned index, file_text& text) {
  std::uint16_t key = 0;
  if (index >= from.port.pkey_tbl_len || !from.partition(index, key)) return state::missing;
  return text.print("0x%04x\n", be16toh(key));
}

// Returns the device number that stat(2) reports for the node.
dev_t node_number() noexcept {
  struct stat about = {};
  return ::stat(null_device, &about) == 0 ? about.st_rdev : 0;
}

state write_node_number(const device_view& /*from*/, unsigned /*index*/, file_text& text) {
  return text.print("%u:%u\n", major(node_number()), minor(node_number()));
}

state write_node_event(const device_view& /*from*/, unsigned /*index*/, file_text& text) {
  return text.print("MAJOR=%u\nMINOR=%u\nDEVNAME=infiniband/%s\nDEVMODE=0666\n",
                    major(node_number()), minor(node_number()), soft_engine().device->dev_name);
}

// A writer of one value.
#define VALUE(...)                                                  \
  [](const device_view& from, unsigned, file_text& text) -> state { \
    static_cast<void>(from);                                        \
    return __VA_ARGS__;                                             \
  }

enum class table : std::uint8_t { none, gids, partitions };

}  // namespace

struct kernel_file::row {
  const char* path;
  file_kind kind;
  writer write = nullptr;
  const char* link = nullptr;
  table entries = table::none;
};

namespace {

#define DEVICE "/sys/devices/virtual/infiniband/@"
#define NODE "/sys/devices/virtual/infiniband_verbs/&"
#define PORT DEVICE "/ports/1"
using enum file_kind;

constexpr kernel_file::row rows[] = {
#define FILE(...) {__VA_ARGS__},
#include "softdev/forward/kernel_files.inc"
#undef FILE
};
#undef DEVICE
#undef NODE
#undef PORT
#undef VALUE

using path_buffer = std::array<char, kernel_file::longest>;

// Returns the name for a placeholder of a row; nullptr for other characters.
const char* name_of_sign(char sign) noexcept {
  if (sign == '@') return soft_engine().device->name;
  return sign == '&' ? soft_engine().device->dev_name : nullptr;
}

// Replaces the placeholders of a row. The rows are much shorter than the buffer, and names have at
// most 63 characters.
void expand(const char* pattern, unsigned index, path_buffer& out) noexcept {
  std::size_t length = 0;
  for (; *pattern != '\0'; ++pattern) {
    const std::size_t room = out.size() - length;
    if (const char* const name = name_of_sign(*pattern))
      length += static_cast<std::size_t>(std::snprintf(&out[length], room, "%s", name));
    else if (*pattern == '#')
      length += static_cast<std::size_t>(std::snprintf(&out[length], room, "%u", index));
    else
      out[length++] = *pattern;
  }
  out[length] = '\0';
}

// Reads all of `digits` as an index without leading zeros.
bool read_index(std::string_view digits, unsigned& index) noexcept {
  if (digits.empty() || digits.size() > 5 || (digits.size() > 1 && digits[0] == '0')) return false;
  index = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return false;
    index = index * 10 + static_cast<unsigned>(digit - '0');
  }
  return true;
}

// Compares a path with a row, and reads the index.
bool matches(const char* pattern, std::string_view path, unsigned& index) noexcept {
  for (; *pattern != '\0'; ++pattern) {
    if (*pattern == '#') return read_index(path, index);
    if (const char* const name = name_of_sign(*pattern)) {
      if (!path.starts_with(name)) return false;
      path.remove_prefix(std::strlen(name));
      continue;
    }
    if (path.empty() || path[0] != *pattern) return false;
    path.remove_prefix(1);
  }
  return path.empty();
}

bool find_row(const path_buffer& path, kernel_file& found) noexcept {
  for (const kernel_file::row& each : rows) {
    unsigned index = 0;
    if (!matches(each.path, path.data(), index)) continue;
    found.what = &each;
    found.index = index;
    found.path = path;
    return true;
  }
  return false;
}

// Appends a component to an absolute path. Returns false if the path is too long.
bool step(path_buffer& path, std::string_view component) noexcept {
  const std::size_t length = std::strlen(path.data());
  if (component.empty() || component == ".") return true;
  if (component == "..") {
    if (char* const slash = std::strrchr(path.data(), '/')) *slash = '\0';
    return true;
  }
  if (length + component.size() + 2 > path.size()) return false;
  path[length] = '/';
  std::memcpy(&path[length + 1], component.data(), component.size());
  path[length + 1 + component.size()] = '\0';
  return true;
}

bool walk(path_buffer& path, std::string_view rest, bool follow) noexcept {
  while (!rest.empty()) {
    const auto end = rest.find('/');
    const auto component = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (!step(path, component)) return false;
    kernel_file link;
    if ((rest.empty() && !follow) || !find_row(path, link) || link.kind() != file_kind::link)
      continue;
    path_buffer target;
    link.target(target);
    // The targets are relative, and no link leads to a link.
    if (!step(path, "..") || !walk(path, target.data(), false)) return false;
  }
  return true;
}

}  // namespace

state file_text::print(const char* format, ...) noexcept {
  va_list values;
  va_start(values, format);
  const int count = std::vsnprintf(bytes.data(), bytes.size(), format, values);
  va_end(values);
  length = count > 0 ? static_cast<std::size_t>(count) : 0;
  if (length >= bytes.size()) length = bytes.size() - 1;
  return state::readable;
}

device_view::device_view() noexcept {
  const engine& loaded = soft_engine();
  auto* const open = loaded.table.at<ibv_context*(ibv_device*)>(slot::ibv_open_device);
  auto* const query_device = loaded.table.at<decltype(ibv_query_device)>(slot::ibv_query_device);
  auto* const query_port = loaded.table.at<decltype(ibv_query_port)>(slot::ibv_query_port);
  if (loaded.device == nullptr || open == nullptr || query_device == nullptr ||
      query_port == nullptr)
    return;
  context_ = open(const_cast<ibv_device*>(loaded.device));
  if (context_ == nullptr) return;
  query_device(context_, &device);
  query_port(context_, only_port, reinterpret_cast<_compat_ibv_port_attr*>(&port));
}

device_view::~device_view() {
  if (context_ == nullptr) return;
  if (auto* const close =
          soft_engine().table.at<decltype(ibv_close_device)>(slot::ibv_close_device))
    close(context_);
}

bool device_view::gid(unsigned index, ibv_gid_entry& entry) const noexcept {
  auto* const query = soft_engine().table.at<decltype(_ibv_query_gid_ex)>(slot::_ibv_query_gid_ex);
  return query != nullptr && query(context_, only_port, index, &entry, 0, sizeof entry) == 0;
}

bool device_view::partition(unsigned index, std::uint16_t& key) const noexcept {
  auto* const query = soft_engine().table.at<decltype(ibv_query_pkey)>(slot::ibv_query_pkey);
  __be16 read = 0;
  if (query == nullptr || query(context_, only_port, static_cast<int>(index), &read) != 0)
    return false;
  key = read;
  return true;
}

file_kind kernel_file::kind() const noexcept { return what->kind; }

void kernel_file::target(std::array<char, longest>& text) const noexcept {
  expand(what->link, index, text);
}

state kernel_file::read(const device_view& from, file_text& text) const noexcept {
  return what->write(from, index, text);
}

bool may_be_kernel_file(const char* path) noexcept {
  if (path == nullptr || path[0] != '/' || (path[1] != 's' && path[1] != 'd')) return false;
  for (const std::string_view prefix :
       {"/sys/class/infiniband", "/sys/devices/virtual/infiniband", "/dev/infiniband"})
    if (std::strncmp(path, prefix.data(), prefix.size()) == 0) return true;
  return false;
}

bool find_kernel_file(const char* path, bool follow, kernel_file& found) noexcept {
  if (soft_engine().device == nullptr) return false;
  const std::string_view text = path;
  // A slash at the end means that a link is resolved.
  path_buffer canonical = {};
  return walk(canonical, text, follow || text.ends_with('/')) && find_row(canonical, found);
}

void for_each_kernel_file(const device_view& from, void (*visit)(void* data, const kernel_file&),
                          void* data) noexcept {
  for (const kernel_file::row& each : rows) {
    unsigned count = 1;
    if (each.entries == table::gids) count = static_cast<unsigned>(from.port.gid_tbl_len);
    if (each.entries == table::partitions) count = from.port.pkey_tbl_len;
    kernel_file file;
    file.what = &each;
    for (file.index = 0; file.index < count; ++file.index) {
      expand(each.path, file.index, file.path);
      visit(data, file);
    }
  }
}

}  // namespace verbena::forward
