//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sender

import "os"

// lock keeps no other sender from the spool: the standard library has no lock on this system.
func lock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// isDiskFull is false: these systems have no error of one name for it.
func isDiskFull(error) bool { return false }
