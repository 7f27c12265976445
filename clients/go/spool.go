package sender

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A spool keeps each event of a project as a file until it is stored or dropped. Files are ordered by number, not by a
// clock, which may be set back. One process at a time holds its lock. Files are not synced.
type spool struct {
	prefix    string // of the path of each file
	last      uint64 // number of a file
	lock      *os.File
	isFailing bool // the last event could not be written
}

// openSpool returns the events of earlier senders, in their order. It deletes damaged files and returns their count.
func openSpool(directory, project string) (s *spool, left []queued, damaged int, err error) {
	if directory, err = filepath.Abs(directory); err != nil { // the program may change its working directory
		return nil, nil, 0, err
	} else if err = os.MkdirAll(directory, 0o700); err != nil {
		return nil, nil, 0, fmt.Errorf("sender: the spool: %w", err)
	}
	s = &spool{prefix: filepath.Join(directory, project+"@")}
	if s.lock, err = lock(filepath.Join(directory, project+".lock")); err != nil {
		return nil, nil, 0, fmt.Errorf("sender: the spool: %w", err)
	}
	os.Remove(s.temporary()) // of a process that was killed
	if left, damaged, err = s.load(directory); err != nil {
		s.close()
		return nil, nil, 0, err
	}
	return s, left, damaged, nil
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

// write returns the path of the file, which gets this name only when it is complete.
func (s *spool) write(line []byte) (path string, err error) {
	s.last++
	path = fmt.Sprintf("%s%016d.json", s.prefix, s.last)
	if err = os.WriteFile(s.temporary(), line, 0o600); err == nil {
		err = os.Rename(s.temporary(), path)
	}
	if err != nil {
		os.Remove(s.temporary())
		return "", err
	}
	return path, nil
}

func (s *spool) temporary() string { return s.prefix + "tmp" }

func (s *spool) close() { s.lock.Close() }
