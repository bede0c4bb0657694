package files

// While returns an FS that works as long as ended returns nil. Afterwards all calls return ended's error, including reads and writes of
// files opened before. An op that processes much data therefore ends with its step.
func While(fsys FS, ended func() error) FS { return &while{fsys, ended} }

type while struct {
	FS
	ended func() error
}

func (w *while) Check(path string) error {
	if err := w.ended(); err != nil {
		return err
	}
	return w.FS.Check(path)
}

func (w *while) Open(path string) (File, error)      { return w.open(w.FS.Open, path) }
func (w *while) Create(path string) (File, error)    { return w.open(w.FS.Create, path) }
func (w *while) Overwrite(path string) (File, error) { return w.open(w.FS.Overwrite, path) }
func (w *while) Append(path string) (File, error)    { return w.open(w.FS.Append, path) }

func (w *while) open(open func(string) (File, error), path string) (File, error) {
	if err := w.ended(); err != nil {
		return nil, err
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	return &whileFile{f, w.ended}, nil
}

func (w *while) List(dir string) ([]string, error) {
	if err := w.ended(); err != nil {
		return nil, err
	}
	return w.FS.List(dir)
}

func (w *while) Lock(dir string) (unlock func(), err error) {
	if err := w.ended(); err != nil {
		return nil, err
	}
	return w.FS.Lock(dir)
}

// whileFile is a file of a While.
type whileFile struct {
	File
	ended func() error
}

func (f *whileFile) Read(b []byte) (int, error) {
	if err := f.ended(); err != nil {
		return 0, err
	}
	return f.File.Read(b)
}

func (f *whileFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.ended(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, at)
}

func (f *whileFile) Write(b []byte) (int, error) {
	if err := f.ended(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

// Ended returns the error of an FS that works no longer, for code that computes for long without it; nil for an FS that is not a While.
func Ended(fsys FS) error {
	if w, ok := fsys.(*while); ok {
		return w.ended()
	}
	return nil
}

// Always returns the FS that a While wraps, for cleaning up after the end; any other FS is returned unchanged.
func Always(fsys FS) FS {
	if w, ok := fsys.(*while); ok {
		return w.FS
	}
	return fsys
}
