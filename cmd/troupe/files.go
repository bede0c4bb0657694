package main

import (
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
)

// fileFlags say which files of the server clients may use.
type fileFlags struct {
	folders  []string
	insecure bool
}

func (f *fileFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.folders, "files", nil, "folder below which all clients' ops may use files, and nowhere else; may be repeated "+
		"(without it, clients on the loopback interface may use all files, and others none)")
	flags.BoolVar(&f.insecure, "insecure", false, "let everybody who reaches the port do all that TensorFlow's server allows, such as using all files (unless --files is given)")
}

func (f *fileFlags) options() []troupe.Option {
	return []troupe.Option{troupe.WithFiles(f.folders...), troupe.WithInsecure(f.insecure)}
}
