package checkpoint

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/kernels/files"
)

// journalFile is a journal with given content.
type journalFile struct {
	files.File
	*bytes.Reader
}

func (f journalFile) Read(b []byte) (int, error)             { return f.Reader.Read(b) }
func (f journalFile) ReadAt(b []byte, at int64) (int, error) { return f.Reader.ReadAt(b, at) }
func (f journalFile) Size() int64                            { return f.Reader.Size() }

// noFiles is a folder without any file.
type noFiles struct{ files.FS }

func (noFiles) Open(string) (files.File, error) { return nil, fs.ErrNotExist }

// FuzzJournal checks that, whatever a journal contains, only checkpoint files in or below its folder are removed.
func FuzzJournal(f *testing.F) {
	for _, seed := range []string{
		`{"Base":"model","Count":1,"Shards":1}` + "\n" + `{"Sources":["t/part.index"]}` + "\n" + `{"Committed":true}`,
		`{"Base":"../x","First":2147483647,"Count":2147483647,"Shards":-1}`,
		`{"Sources":["../x.index","/x.index","a/../../x.index"],"Committed":true}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		left, err := leftovers(noFiles{}, "dir", []string{"model.data-00000-of-00001", "model.index", "notes"}, readRecords(journalFile{Reader: bytes.NewReader(text)}))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range left {
			if path := filepath.Join("dir", name); !strings.HasPrefix(path, "dir/") || !partName.MatchString(path) {
				t.Errorf("%q is removed", path)
			}
		}
	})
}
