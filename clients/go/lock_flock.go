//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sender

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock fails while another sender holds the lock, in this or another process. The kernel releases it when a process ends.
func lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		err = &os.PathError{Op: "lock", Path: path, Err: err}
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("in use, each sender needs its own directory: %w", err)
		}
		return nil, err
	}
	return file, nil
}

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
