package proxy

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// sameUser returns an error for a connection from this machine whose other end does not belong to this process's user. Connections from
// elsewhere pass: they are possible only if the proxy was made to listen there.
func sameUser(c net.Conn) error {
	remote, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok || !remote.IP.IsLoopback() {
		return nil
	}
	local, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return nil
	}
	uid, err := ownerOf(remote.AddrPort(), local.AddrPort())
	if err != nil {
		return fmt.Errorf("its owner could not be determined: %w", err)
	}
	if uid != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, and the identity to user %d (--any-user allows it)", uid, os.Geteuid())
	}
	return nil
}

// ownerOf returns the user whose open socket is bound to local and connected to remote, from the kernel's tables of sockets
// (proc_pid_net(5)).
func ownerOf(local, remote netip.AddrPort) (int, error) {
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			if os.IsNotExist(err) {
				continue // a kernel without IPv6
			}
			return 0, err
		}
		uid, found, err := search(bufio.NewScanner(f), local, remote)
		_ = f.Close() // it was only read
		if found || err != nil {
			return uid, err
		}
	}
	return 0, fmt.Errorf("the kernel lists no connection from %v to %v", local, remote)
}

// search looks for a connection in a table.
func search(lines *bufio.Scanner, local, remote netip.AddrPort) (uid int, found bool, err error) {
	lines.Scan() // the header
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		const uidField, inodeField = 7, 9
		if len(f) <= inodeField {
			continue
		}
		if !is(f[1], local) || !is(f[2], remote) {
			continue
		}
		// The kernel lists the remains of a closed socket as user 0's, whoever owned it.
		if f[inodeField] == "0" {
			return 0, false, fmt.Errorf("the connection from %v to %v was closed before its owner was determined", local, remote)
		}
		uid, err := strconv.Atoi(f[uidField])
		return uid, err == nil, err
	}
	return 0, false, lines.Err()
}

// is reports whether a table's address, hexadecimal words in the machine's byte order, is a.
func is(text string, a netip.AddrPort) bool {
	host, port, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil || uint16(n) != a.Port() {
		return false
	}
	b, err := hex.DecodeString(host)
	if err != nil || len(b)%4 != 0 {
		return false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	got, ok := netip.AddrFromSlice(b)
	return ok && got.Unmap() == a.Addr().Unmap()
}
