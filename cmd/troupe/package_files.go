//go:build packaging

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/remote/member"
)

func init() { extra = append(extra, newPackageFiles) }

// newPackageFiles returns the command that writes the files that packages contain beside the program. Only builds with the tag packaging
// have it: releases run it, and do not contain it.
func newPackageFiles() *cobra.Command {
	var date string
	cmd := &cobra.Command{
		Use:    "package-files FOLDER",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			made, err := time.Parse(time.RFC3339, date)
			if err != nil {
				return exit.Usage(fmt.Errorf("--date: %w", err))
			}
			if err := writeManPages(cmd.Root(), filepath.Join(args[0], "man"), made.UTC()); err != nil {
				return err
			}
			return writeCompletions(cmd.Root(), filepath.Join(args[0], "completions"))
		},
	}
	cmd.Flags().StringVar(&date, "date", "", "the date of the man pages, as in RFC 3339")
	return cmd
}

// writeManPages writes a compressed page of section 1 for each command.
func writeManPages(root *cobra.Command, folder string, date time.Time) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "Troupe " + member.Version(), Manual: "Troupe", Date: &date}
	if err := doc.GenManTree(root, header, folder); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(folder, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(page+".gz", packed.Bytes(), 0o644); err != nil {
			return err
		}
		if err := os.Remove(page); err != nil {
			return err
		}
	}
	return nil
}

// writeCompletions writes a script for each shell, under the name by which the shell finds it.
func writeCompletions(root *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, write := range map[string]func(path string) error{
		"troupe":      func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"_troupe":     root.GenZshCompletionFile,
		"troupe.fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
	} {
		if err := write(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}
