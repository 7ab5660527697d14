//! Fenced blocks of Markdown.

/// Languages of what a reader types into a shell.
pub(super) const SHELL: [&str; 2] = ["sh", "console"];

/// A block: where it begins, its language, and its lines without the margin that a list gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Line of its first fence.
    pub(super) line: usize,
    pub(super) language: String,
    pub(super) text: String,
}

impl Block {
    pub(super) fn is_shell(&self) -> bool {
        SHELL.contains(&self.language.as_str())
    }

    /// Commands of a shell's block, each with what the page says that it prints: nothing where the page does not say it.
    pub(super) fn commands(&self) -> Vec<(String, String)> {
        if self.language == "sh" {
            // One text: quotes and loops go over lines.
            return vec![(self.text.clone(), String::new())];
        }
        let mut commands: Vec<(String, String)> = Vec::new();
        for line in self.text.lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((format!("{command}\n"), String::new())),
                (None, Some((_, prints))) => *prints += &format!("{line}\n"),
                (None, None) => panic!("line {}: a console begins with a command", self.line),
            }
        }
        commands
    }
}

/// All blocks of a page, in their order.
pub(super) fn blocks(markdown: &str) -> Vec<Block> {
    let (mut blocks, mut inside) = (Vec::new(), None::<(usize, Block)>);
    for (line, number) in markdown.lines().zip(1..) {
        let margin = line.len() - line.trim_start().len();
        inside = match (inside, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => Some((margin, Block { line: number, language: language.trim().to_owned(), text: String::new() })),
            (Some((_, block)), Some(_)) => {
                blocks.push(block);
                None
            }
            (Some((margin, mut block)), None) => {
                block.text += line.get(margin..).unwrap_or_default();
                block.text.push('\n');
                Some((margin, block))
            }
            (None, None) => None,
        };
    }
    assert!(inside.is_none(), "a block has no end");
    blocks
}

#[test]
fn blocks_are_found_with_their_lines_and_without_their_margin() {
    let page = "text\n```sh\na\n  b\n```\n1. x\n\n   ```console\n   $ c\n   out\n\n   more\n   $ d\n   ```\n```\nz\n```\n";
    let found = blocks(page);
    let told: Vec<_> = found.iter().map(|block| (block.line, &*block.language, &*block.text)).collect();
    assert_eq!(told, [(2, "sh", "a\n  b\n"), (8, "console", "$ c\nout\n\nmore\n$ d\n"), (15, "", "z\n")]);
    assert_eq!(found[0].commands(), [("a\n  b\n".to_owned(), String::new())]);
    assert_eq!(found[1].commands(), [("c\n".to_owned(), "out\n\nmore\n".to_owned()), ("d\n".to_owned(), String::new())]);
}
