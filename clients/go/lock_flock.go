//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sender

import (
	"os"
	"syscall"
)

// lock fails while another sender holds the lock, of this or another process. The kernel unlocks it when a process ends.
func lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return file, nil
}
