package sender

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A spool keeps each event of a project as a file until it is stored or dropped. Files are ordered by number, not by a
// clock, which may be set back. One process at a time holds its lock. Files are not synced.
type spool struct {
	directory string
	prefix    string // of the path of each file
	last      uint64 // number of a file
	lock      *os.File
	isFailing bool // the last event could not be written
}

// openSpool returns the events of earlier senders, in their order. It deletes damaged files and returns their count.
func openSpool(directory, project string) (s *spool, left []queued, damaged int, err error) {
	if directory, err = filepath.Abs(directory); err != nil { // the program may change its working directory
		return nil, nil, 0, err
	}
	s = &spool{directory: directory, prefix: filepath.Join(directory, project+"@")}
	if err = s.open(); err != nil {
		return nil, nil, 0, fmt.Errorf("sender: the spool: %w", err)
	}
	os.Remove(s.temporary()) // left by a process that was killed
	if left, damaged, err = s.load(directory); err != nil {
		s.close()
		return nil, nil, 0, err
	}
	return s, left, damaged, nil
}

func (s *spool) open() (err error) {
	if err = os.MkdirAll(s.directory, 0o700); err == nil {
		s.lock, err = lock(s.lockPath())
	}
	return err
}

func (s *spool) lockPath() string { return strings.TrimSuffix(s.prefix, "@") + ".lock" }

// isDeleted reports whether the lock file was deleted or replaced: writes to a deleted file succeed and are lost.
func (s *spool) isDeleted() bool {
	named, err := os.Stat(s.lockPath())
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	held, err := s.lock.Stat()
	return err == nil && !os.SameFile(named, held)
}

// restore writes an event of the spool again if its file was deleted, and returns its path.
func (s *spool) restore(event queued) (path string, err error) {
	line, err := os.ReadFile(event.path)
	if err == nil && bytes.Equal(line, event.line) {
		return event.path, nil
	} else if err == nil || !errors.Is(err, fs.ErrNotExist) { // the file of another sender that used the directory meanwhile
		return s.write(event.line)
	}
	return event.path, s.writeTo(event.path, event.line)
}

func (s *spool) load(directory string) (left []queued, damaged int, err error) {
	entries, err := os.ReadDir(directory) // in the order of their names
	if err != nil {
		return nil, 0, err
	}
	for _, entry := range entries {
		path := filepath.Join(directory, entry.Name())
		if !strings.HasPrefix(path, s.prefix) || filepath.Ext(path) != ".json" {
			continue
		}
		if number, err := strconv.ParseUint(strings.TrimSuffix(path[len(s.prefix):], ".json"), 10, 64); err == nil && number > s.last {
			s.last = number
		}
		line, err := os.ReadFile(path)
		if err != nil {
			return nil, 0, err
		} else if parseObject(line) != nil && len(line) <= eventBytesMax {
			left = append(left, queued{line: line, path: path})
		} else {
			damaged++
			os.Remove(path)
		}
	}
	return left, damaged, nil
}

// write creates a file, which gets its name only when it is complete, and returns its path.
func (s *spool) write(line []byte) (path string, err error) {
	s.last++
	path = fmt.Sprintf("%s%016d.json", s.prefix, s.last)
	return path, s.writeTo(path, line)
}

func (s *spool) writeTo(path string, line []byte) error {
	err := os.WriteFile(s.temporary(), line, 0o600)
	if err == nil {
		err = os.Rename(s.temporary(), path)
	}
	if err != nil {
		os.Remove(s.temporary())
	}
	return err
}

func (s *spool) temporary() string { return s.prefix + "tmp" }

func (s *spool) close() { s.lock.Close() }
