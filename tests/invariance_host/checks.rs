//! What every batch must look like, whatever is in it.

use super::keys::KEYS;
use super::schedule::CHUNK_BYTES;
use crate::host::batch::{Batch, Member};

/// Where outputs lie on such a boundary.
const ALIGNMENT: usize = 64;

/// How batches of an engine are to be.
pub struct Form {
    /// Rows of the arena.
    pub max_sessions: usize,
    /// `RTE_MODEL_DENSE`.
    pub is_dense: bool,
    /// `RTE_MODEL_OUTPUT_BLOCK`.
    pub is_block: bool,
}

impl Form {
    /// What is wrong with a batch. `ends_chunk`: it has outputs, none of which lies where one of `held` does.
    pub fn complaints(&self, batch: &Batch, ends_chunk: bool, held: &[usize]) -> Vec<&'static str> {
        let members = batch.members();
        let mut complaints = Vec::new();
        let mut check = |is_right: bool, complaint| {
            if !is_right {
                complaints.push(complaint);
            }
        };
        check(!members.is_empty(), "nobody is in it");
        check(members.windows(2).all(|pair| pair[0].row < pair[1].row), "its rows are not ascending");
        check(members.iter().all(|member| member.generation > 0), "a row has no life");
        let is_member = |row: usize| members.iter().any(|member| member.row == row);
        let mask_agrees = (0..self.max_sessions).all(|row| batch.mask()[row] == u8::from(is_member(row)));
        check(mask_agrees, "its mask and its rows do not agree");
        let padding = batch.padding();
        if self.is_dense {
            let all = members.iter().chain(&padding);
            check(batch.count() == self.max_sessions, "a dense batch is not the whole arena");
            check({ all }.all(|member| member.at == member.row), "a row of a dense batch is not in its place");
            let may_have_output = ends_chunk && self.is_block;
            let is_neutral = |member: &Member| is_neutral(batch, *member, may_have_output);
            check(padding.iter().all(is_neutral), "its padding is not neutral");
        } else {
            check(padding.is_empty(), "a batch that is not dense has padding");
        }
        if ends_chunk {
            let outputs = members.iter().map(|member| batch.output(*member).map_or(0, |output| output.addr()));
            let mut outputs: Vec<usize> = outputs.collect();
            if self.is_block {
                let begin = outputs[0].wrapping_sub(members[0].at * CHUNK_BYTES);
                let all = members.iter().chain(&padding);
                let is_in_place = |member: &Member| {
                    batch.output(*member).is_some_and(|output| output.addr() == begin + member.at * CHUNK_BYTES)
                };
                check({ all }.all(is_in_place), "its outputs are not one block");
            }
            check(outputs.iter().all(|at| *at != 0 && at % ALIGNMENT == 0), "an output is missing, or badly aligned");
            let is_held = |at: usize| held.iter().any(|held| at.abs_diff(*held) < CHUNK_BYTES);
            check(!outputs.iter().any(|at| is_held(*at)), "an output is still with the consumer");
            outputs.sort_unstable();
            check(outputs.windows(2).all(|pair| pair[1] - pair[0] >= CHUNK_BYTES), "two outputs share memory");
        } else {
            check(!batch.has_outputs(), "there are outputs where no chunk ends");
        }
        complaints
    }
}

fn is_neutral(batch: &Batch, member: Member, may_have_output: bool) -> bool {
    (member.session, member.user, member.generation) == (0, 0, 0)
        && (may_have_output || !batch.has_output(member))
        && KEYS.iter().enumerate().all(|(key, facts)| {
            let cell_is_zero = || batch.cell(member, key, facts.size).iter().all(|byte| *byte == 0);
            batch.value(member, key).is_none() && (facts.size == 0 || cell_is_zero())
        })
}
