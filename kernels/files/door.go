package files

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/rights"
)

// Door gives the ops of a session's steps their files, by the op's name. An op that is not known to use files cannot open any. An op that a
// policy denies has no files, regardless of which op runs what it created. A nil Door has no files.
type Door struct {
	files  FS
	rights *rights.Session
}

// NewDoor returns a Door to the files of fsys for a session with the given rights.
func NewDoor(fsys FS, r *rights.Session) *Door { return &Door{fsys, r} }

// For returns the files that an op may use.
func (d *Door) For(op string) FS {
	switch {
	case d == nil:
		return None("the step has no files")
	case !rights.UsesFiles(op):
		return refusing(func(path string) error {
			return status.Internalf("%s; %s is not known to use files: it has to be added to the ops that do (rights.FileOps)", path, op)
		})
	}
	if err := d.rights.Op(op); err != nil {
		return refusing(func(path string) error { return denied(path, err.Error()) })
	}
	return d.files
}
