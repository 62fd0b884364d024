// SPDX-License-Identifier: MIT
// Writes the pcapng format (draft-ietf-opsawg-pcapng). Numbers are in host byte order.
#include "softdev/capture/capture_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "verbena/base/log.hpp"

namespace verbena::softdev::capture {
namespace {

constexpr std::uint32_t packet_block_type = 6;
constexpr std::uint16_t end_option = 0;
constexpr std::uint16_t comment_option = 1;
constexpr std::uint16_t flags_option = 2;    ///< epb_flags
constexpr std::uint16_t dropped_option = 4;  ///< epb_dropcount
constexpr std::uint32_t inbound_flag = 1;
constexpr std::uint32_t outbound_flag = 2;
constexpr std::size_t block_fields = 28;  ///< the part of a packet block in front of the packet
constexpr std::size_t option_head = 4;
constexpr std::size_t trailer = 4;

constexpr std::size_t padded(std::size_t bytes) noexcept { return (bytes + 3) / 4 * 4; }

/// Returns the number of bytes of a packet's options.
std::size_t option_bytes(const packet_notes& notes, bool says_lost) noexcept {
  std::size_t bytes = says_lost ? option_head + sizeof(std::uint64_t) : 0;
  if (notes.direction != packet_notes::way::unknown) bytes += option_head + sizeof(std::uint32_t);
  if (!notes.comment.empty()) bytes += option_head + padded(notes.comment.size());
  return bytes != 0 ? bytes + option_head : 0;
}

/// Writes values one after the other. Threads: one thread at a time.
class block_writer {
 public:
  explicit block_writer(std::byte* to) noexcept : at_(to) {}
  template <class Value>
  void put(const Value& value) noexcept {
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
  }
  /// Writes bytes, and pads them with zeros to a multiple of four.
  void put_padded(std::span<const std::byte> bytes) noexcept {
    at_ = std::ranges::copy(bytes, at_).out;
    at_ = std::fill_n(at_, padded(bytes.size()) - bytes.size(), std::byte{0});
  }
  void put_option(std::uint16_t kind, std::span<const std::byte> value) noexcept {
    put(kind);
    put(static_cast<std::uint16_t>(value.size()));
    put_padded(value);
  }
  template <class Value>
  void put_option(std::uint16_t kind, const Value& value) noexcept {
    put_option(kind, std::as_bytes(std::span(&value, 1)));
  }

 private:
  std::byte* at_;
};

/// The section header and the description of the only interface: Ethernet, times in nanoseconds.
/// All processes append packets of this interface.
struct file_header {
  std::uint32_t section_type = 0x0a0d'0d0a;
  std::uint32_t section_bytes = 28;
  std::uint32_t byte_order = 0x1a2b'3c4d;
  std::uint16_t major = 1;
  std::uint16_t minor = 0;
  std::uint32_t length_unknown[2] = {~0U, ~0U};
  std::uint32_t section_end = 28;
  std::uint32_t interface_type = 1;
  std::uint32_t interface_bytes = 44;
  std::uint16_t ethernet = 1;
  std::uint16_t reserved = 0;
  std::uint32_t unlimited = 0;
  std::uint16_t name_option = 2;
  std::uint16_t name_bytes = 5;
  char name[8] = {'s', 'o', 'f', 't', '0', 0, 0, 0};
  std::uint16_t resolution_option = 9;
  std::uint16_t resolution_bytes = 1;
  std::uint8_t resolution[4] = {9, 0, 0, 0};
  std::uint32_t end_of_options = 0;
  std::uint32_t interface_end = 44;
};
static_assert(sizeof(file_header) == 28 + 44);

error refused(const std::string& path, const char* why) {
  return error::invalid_argument("VERBENA_SOFTDEV_CAPTURE", path, why);
}
error failed(const std::string& path, const char* call) {
  return error::from_errno(errno, call, path,
                           "VERBENA_SOFTDEV_CAPTURE names the file of a capture");
}

/// Excludes other processes from the file. A lock of fcntl(2) ends with its process, also if a
/// child has the descriptor. Threads: one thread at a time.
class append_lock {
 public:
  /// Waits at most `longest_ms`. A holder needs microseconds, unless a debugger has stopped it.
  append_lock(int fd, int longest_ms) noexcept : fd_(fd) {
    using std::chrono::steady_clock;
    constexpr int tries_before_sleep = 100;
    const auto end = steady_clock::now() + std::chrono::milliseconds(longest_ms);
    for (int tries = 0; !set(F_WRLCK); ++tries) {
      if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || steady_clock::now() >= end)
        return;
      if (tries < tries_before_sleep)
        ::sched_yield();
      else
        ::poll(nullptr, 0, 1);
    }
    is_held_ = true;
  }
  append_lock(const append_lock&) = delete;
  append_lock& operator=(const append_lock&) = delete;
  ~append_lock() {
    const int kept = errno;
    if (is_held_) static_cast<void>(set(F_UNLCK));
    errno = kept;
  }
  /// If false, errno is that of fcntl(2).
  [[nodiscard]] bool is_held() const noexcept { return is_held_; }

 private:
  [[nodiscard]] bool set(short kind) const noexcept {
    struct flock whole{};
    whole.l_type = kind;
    whole.l_whence = SEEK_SET;
    return ::fcntl(fd_, F_SETLK, &whole) == 0;
  }

  const int fd_;
  bool is_held_ = false;
};

/// Returns the end of the last whole block. `from` is the end of a block, and `size` that of the
/// file. Does not reject blocks that soft0 did not write.
off_t end_of_blocks(int fd, off_t from, off_t size) noexcept {
  constexpr off_t head = 8;
  constexpr std::uint32_t smallest_block = 12;
  std::array<std::byte, 4096> part;
  while (from < size) {
    const ssize_t count = ::pread(fd, part.data(), part.size(), from);
    if (count < 0) return size;
    if (count < head) break;
    off_t at = 0;
    while (at + head <= count) {
      std::uint32_t bytes = 0;
      std::memcpy(&bytes, part.data() + at + 4, sizeof bytes);
      if (bytes < smallest_block) return size;
      if (from + at + off_t{bytes} > size) return from + at;
      at += off_t{bytes};
    }
    from += at;
  }
  return from;
}

/// Returns the end of the last block that is whole now. Without the lock, so that a long file
/// delays no other process. `from` is the end of a block.
off_t end_without_lock(int fd, off_t from) noexcept {
  struct stat status{};
  if (::fstat(fd, &status) != 0 || status.st_size <= from) return from;
  return end_of_blocks(fd, from, status.st_size);
}

/// Removes a part of a block at the end of the file: a process ended while it wrote the block.
/// Precondition: the lock is held. Returns the new size, or -1 and errno.
off_t remove_part_of_block(int fd, off_t from) noexcept {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return -1;
  if (status.st_size <= from) return status.st_size;
  const off_t end = end_of_blocks(fd, from, status.st_size);
  return end == status.st_size || ::ftruncate(fd, end) == 0 ? end : -1;
}

/// Writes the header to an empty file, or checks the header of an existing capture. Returns the
/// size of the file, which ends with a whole block.
result<off_t> begin_file(int fd, const std::string& path) {
  constexpr off_t size = sizeof(file_header);
  const off_t known = end_without_lock(fd, size);
  const append_lock lock(fd, capture_file::longest_wait_for_file_ms);
  if (!lock.is_held()) return failed(path, "fcntl");
  struct stat status{};
  if (::fstat(fd, &status) != 0) return failed(path, "fstat");
  if (!S_ISREG(status.st_mode)) return refused(path, "it is neither a regular file nor a socket");
  if (status.st_uid != ::geteuid()) return refused(path, "the file belongs to another user");
  const file_header expected;
  std::array<std::byte, sizeof expected> found{};
  const ssize_t count = ::pread(fd, found.data(), found.size(), 0);
  if (count < 0) return failed(path, "read");
  constexpr ssize_t fewest = 12;  // fewer bytes may begin another file, such as a newline
  if (std::memcmp(found.data(), &expected, static_cast<std::size_t>(count)) != 0 ||
      (count > 0 && count < fewest))
    return refused(path, "the file exists and is not a capture of soft0; remove it");
  if (count < size) {  // the file is new, or the process that created it was killed
    if (::ftruncate(fd, 0) != 0) return failed(path, "ftruncate");
    if (::write(fd, &expected, sizeof expected) != size) return failed(path, "write");
    return size;
  }
  const off_t end = remove_part_of_block(fd, std::min(known, status.st_size));
  if (end < 0) return failed(path, "ftruncate");
  return end;
}

}  // namespace

result<capture_file> capture_file::connect(const std::string& path) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.size() >= sizeof to.sun_path) return refused(path, "the name of the socket is too long");
  std::ranges::copy(path, to.sun_path);
  unique_fd made(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!made) return failed(path, "socket");
  if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    return failed(path, "connect");
  const file_header header;
  // If the queue of the reader is full, the stream already has the header of another process.
  if (::send(made.get(), &header, sizeof header, MSG_NOSIGNAL | MSG_DONTWAIT) !=
          ssize_t{sizeof header} &&
      errno != EAGAIN)
    return failed(path, "send");
  return capture_file(std::move(made), medium::socket);
}

result<capture_file> capture_file::open(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) return connect(path);
  // Without O_NONBLOCK, opening a FIFO would block.
  constexpr int flags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  unique_fd made(::open(path.c_str(), flags, S_IRUSR | S_IWUSR));
  if (!made) return failed(path, "open");
  VERBENA_TRY(const off_t end, begin_file(made.get(), path));
  capture_file opened(std::move(made), medium::file);
  opened.end_ = end;
  return opened;
}

void capture_file::add(std::uint64_t time_ns, std::span<const std::byte> captured,
                       std::size_t original_bytes, const packet_notes& notes) noexcept {
  const std::size_t fixed = block_fields + padded(captured.size()) + trailer;
  if (buffer_.size() - filled_ < fixed + option_bytes(notes, true)) flush();
  const bool says_lost = lost_ > 0 && packets_ == 0;
  const std::size_t options = option_bytes(notes, says_lost);
  const auto bytes = static_cast<std::uint32_t>(fixed + options);
  block_writer to(buffer_.data() + filled_);
  to.put(packet_block_type);
  to.put(bytes);
  to.put(std::uint32_t{0});
  to.put(static_cast<std::uint32_t>(time_ns >> 32U));
  to.put(static_cast<std::uint32_t>(time_ns));
  to.put(static_cast<std::uint32_t>(captured.size()));
  to.put(static_cast<std::uint32_t>(original_bytes));
  to.put_padded(captured);
  // `verbena capture` expects this option first.
  if (says_lost) {
    to.put_option(dropped_option, lost_);
    reported_ = lost_;
  }
  if (notes.direction != packet_notes::way::unknown)
    to.put_option(flags_option,
                  notes.direction == packet_notes::way::inbound ? inbound_flag : outbound_flag);
  if (!notes.comment.empty())
    to.put_option(comment_option, std::as_bytes(std::span(notes.comment)));
  if (options != 0) to.put_option(end_option, std::span<const std::byte>());
  to.put(bytes);
  filled_ += bytes;
  ++packets_;
}

/// Sends the buffer to the reader. Waits for the reader, even if signals interrupt the wait.
ssize_t capture_file::send_all() noexcept {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + std::chrono::milliseconds(longest_wait_ms);
  while (true) {
    const ssize_t sent = ::send(fd_.get(), buffer_.data(), filled_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0 || (errno != EAGAIN && errno != EINTR)) return sent;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - steady_clock::now()).count();
    if (sends_without_wait_ > 0 || left <= 0) {
      sends_without_wait_ = after_slow_reader;
      return sent;
    }
    pollfd reader{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
    static_cast<void>(::poll(&reader, 1, static_cast<int>(left)));
  }
}

/// Appends the buffer to the file, whole or not at all.
ssize_t capture_file::append_all() noexcept {
  end_ = end_without_lock(fd_.get(), end_);
  const append_lock lock(fd_.get(), sends_without_wait_ > 0 ? 0 : longest_wait_for_file_ms);
  if (!lock.is_held()) {
    sends_without_wait_ = after_slow_reader;
    return -1;
  }
  const off_t end = remove_part_of_block(fd_.get(), end_);
  if (end < 0) return -1;
  end_ = end;
  ssize_t written = -1;
  do {
    written = ::write(fd_.get(), buffer_.data(), filled_);
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(filled_))
    end_ += written;
  else if (written > 0)
    static_cast<void>(::ftruncate(fd_.get(), end_));  // otherwise the next writer removes the part
  return written;
}

bool capture_file::write_all() noexcept {
  const ssize_t written = medium_ == medium::socket ? send_all() : append_all();
  return written == static_cast<ssize_t>(filled_);
}

void capture_file::flush() noexcept {
  if (filled_ == 0) return;
  const int kept = errno;
  if (write_all()) {
    lost_ -= reported_;
    if (sends_without_wait_ > 0) --sends_without_wait_;
  } else {
    if (lost_ == 0)
      verbena::log(log_level::warning,
                   medium_ == medium::socket
                       ? "soft0: the capture is incomplete: its reader is too slow"
                   : sends_without_wait_ > 0
                       ? "soft0: the capture is incomplete: another process holds the lock of its "
                         "file for too long; it may be stopped, for example by a debugger"
                       : "soft0: the capture is incomplete: its file cannot be written");
    lost_ += packets_;
  }
  reported_ = 0;
  packets_ = 0;
  filled_ = 0;
  errno = kept;
}

}  // namespace verbena::softdev::capture
