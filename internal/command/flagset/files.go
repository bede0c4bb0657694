package flagset

import (
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
)

// Files are the flags that say which files of the server clients may use.
type Files struct {
	flags    *pflag.FlagSet
	folders  []string
	Insecure bool
}

// Add adds the flags.
func (f *Files) Add(flags *pflag.FlagSet) {
	f.flags = flags
	flags.StringArrayVar(&f.folders, "files", nil, "folder below which all clients' ops may use files, and nowhere else; may be repeated "+
		"(without it, clients on the loopback interface may use all files, and others none)")
	flags.BoolVar(&f.Insecure, "insecure", false, "let everybody who reaches the port do all that TensorFlow's server allows, such as using all files (unless --files is given)")
}

// Options returns the server's options from the flags.
func (f *Files) Options() []troupe.Option {
	return given(f.flags, flagOption{"files", troupe.WithFiles(f.folders...)}, flagOption{"insecure", troupe.WithInsecure(f.Insecure)})
}
