-- job_submit.lua of Slurm (JobSubmitPlugins=lua): refuses a wrong comment `antiphase=...` when the job is submitted or changed, and says
-- why to the user. docs/slurm.md has how to install it, also beside a job_submit.lua of your own.
--
-- What it takes is what antiphase_slurm.py takes, as far as the text alone says it; the tests give both the same comments. It reads no
-- file and asks nobody: slurmctld waits while it runs. An error in it lets the job through.

-- Keys of a model as antiphase_slurm.py has them, each with the pattern of its value.
local NUMBER, TEXT = "^[0-9]+$", "^.+$"
local KEYS = {
    batch = NUMBER, cp = NUMBER, dp = NUMBER, ep = NUMBER, gpu_gflops = NUMBER, gpus_per_host = NUMBER, micro_batches = NUMBER,
    nics_per_host = NUMBER, pp = NUMBER, ranks = NUMBER, tp = NUMBER, nic = TEXT, strategy = TEXT,
}
local HOLDS = { auto = true, phases = true, never = true }
-- Longest number and longest name.
local DIGITS_MAX, NAME_MAX = 18, 64
-- Characters of a comment that are shown.
local SHOWN_MAX = 100

-- What a user wrote, on one line, cut, and without what moves the cursor of whoever reads it.
local function shown(text)
    local cut = text:sub(1, SHOWN_MAX)
    local plain = cut:gsub("[^\32-\126]", function(c) return string.format("\\x%02x", c:byte()) end)
    return "'" .. plain .. "'" .. (#text > SHOWN_MAX and "..." or "")
end

-- What is wrong with one KEY=VALUE; nil where nothing is.
local function wrong_option(option, seen)
    local key, value = option:match("^([^=]+)=(.+)$")
    if not key or seen[key] then
        return shown(option) .. ": expected KEY=VALUE, each key once"
    end
    seen[key] = true
    if key == "hold" then
        return not HOLDS[value] and shown(option) .. ": expected auto, phases or never" or nil
    end
    local pattern = KEYS[key]
    if not pattern or not value:find(pattern) or (pattern == NUMBER and #value > DIGITS_MAX) then
        return shown(option) .. ": no parameter of a model"
    end
    return nil
end

-- The sentence about a wrong comment; nil for one that is right, or that does not say `antiphase=`.
local function wrong(comment)
    local said = nil
    -- What separates is written out: what %s matches depends on the locale of slurmctld.
    for found in (" " .. comment):gmatch("[ \t\n\v\f\r,;]antiphase=([^ \t\n\v\f\r,;]*)") do
        if said then
            return "comment " .. shown(comment) .. ": expected one antiphase=PROFILE[:KEY=VALUE...]"
        end
        said = found
    end
    if not said then
        return nil
    end
    local profile, rest = said:match("^([^:]*)(.*)$")
    if not profile:find("^[A-Za-z0-9][A-Za-z0-9_.-]*$") or #profile > NAME_MAX then
        return "comment " .. shown(comment) .. ": expected one antiphase=PROFILE[:KEY=VALUE...]"
    end
    local seen = {}
    for option in rest:gmatch(":([^:]*)") do
        local what = wrong_option(option, seen)
        if what then
            return "comment " .. shown(comment) .. ": " .. what
        end
    end
    return nil
end

-- Whether the job may go on. An error of ours is in the log of slurmctld, and no job waits for us because of it.
local function check(job)
    local fine, sentence = pcall(function()
        local comment = job.comment
        return type(comment) == "string" and comment:find("antiphase=", 1, true) and wrong(comment) or nil
    end)
    if not fine then
        pcall(slurm.log_info, "%s", "antiphase: job_submit.lua: " .. tostring(sentence))
    elseif sentence then
        -- To the log too: Slurm 22.05 shows a user no sentence about a change of a job.
        pcall(slurm.log_info, "%s", "antiphase: refused: " .. sentence)
        slurm.log_user("%s", "antiphase: " .. sentence)
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

-- Functions of a site come first, where its own job_submit.lua has a dofile of this one at its end.
local site_submit, site_modify = slurm_job_submit, slurm_job_modify

function slurm_job_submit(job, partitions, user)
    local code = site_submit and site_submit(job, partitions, user) or slurm.SUCCESS
    return code == slurm.SUCCESS and check(job) or code
end

function slurm_job_modify(job, record, partitions, user)
    local code = site_modify and site_modify(job, record, partitions, user) or slurm.SUCCESS
    return code == slurm.SUCCESS and check(job) or code
end

return slurm.SUCCESS
