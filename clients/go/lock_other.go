//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sender

import "os"

// lock keeps no other sender from the spool: the standard library has no lock on this system.
func lock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// isDiskFull is always false: the standard library names no error for a full disk on these systems.
func isDiskFull(error) bool { return false }
